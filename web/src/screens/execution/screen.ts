import type { Screen } from "..";

export default { paths: ["/executions/:id"], load: () => import("./Execution") } satisfies Screen;
