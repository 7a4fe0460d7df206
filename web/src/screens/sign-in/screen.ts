import type { Screen } from "..";

export default { paths: ["/sign-in"], bare: true, load: () => import("./SignIn") } satisfies Screen;
