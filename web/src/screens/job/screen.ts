import type { Screen } from "..";

export default { paths: ["/jobs/:id"], load: () => import("./Job") } satisfies Screen;
