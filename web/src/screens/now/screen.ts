import type { Screen } from "..";

export default { paths: ["/"], load: () => import("./Now") } satisfies Screen;
