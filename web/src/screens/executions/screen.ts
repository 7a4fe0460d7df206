import type { Screen } from "..";

export default { paths: ["/executions"], load: () => import("./Executions") } satisfies Screen;
