import type { Screen } from "..";

export default { paths: ["/dead-letters"], load: () => import("./DeadLetters") } satisfies Screen;
