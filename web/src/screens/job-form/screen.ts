import type { Screen } from "..";

export default { paths: ["/jobs/new", "/jobs/:id/edit"], load: () => import("./JobForm") } satisfies Screen;
