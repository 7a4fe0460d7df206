import type { Screen } from "..";

export default { paths: ["/jobs"], load: () => import("./Jobs") } satisfies Screen;
