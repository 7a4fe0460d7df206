import type { Screen } from "..";

export default { paths: ["/x/:id"], load: () => import("./Short") } satisfies Screen;
