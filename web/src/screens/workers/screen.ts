import type { Screen } from "..";

export default { paths: ["/workers", "/workers/:id"], load: () => import("./Workers") } satisfies Screen;
