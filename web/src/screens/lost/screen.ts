import type { Screen } from "..";

export default { paths: ["/*"], load: () => import("./Lost") } satisfies Screen;
