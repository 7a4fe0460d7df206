import type { Screen } from "..";

export default { paths: ["/admin", "/admin/*", "/operations", "/operations/:id"], load: () => import("./Admin") } satisfies Screen;
