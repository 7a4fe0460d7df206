import type { Screen } from "..";

export default { paths: ["/workflows", "/workflows/new", "/workflows/:id", "/workflows/:id/edit", "/workflow-runs/:run", "/approvals"], load: () => import("./Screens") } satisfies Screen;
