import type { Screen } from "..";

export default { paths: ["/forecast"], load: () => import("./Forecast") } satisfies Screen;
