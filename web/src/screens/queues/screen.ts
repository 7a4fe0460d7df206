import type { Screen } from "..";

export default { paths: ["/queues", "/queues/:name"], load: () => import("./Queues") } satisfies Screen;
