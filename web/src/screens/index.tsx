// The screens: each folder here has a screen.ts that names its paths and loads the rest when it is first wanted.

import { lazy, Suspense, Component, type ComponentType, type ReactNode } from "react";
import { match, usePath } from "../router";
import { ErrorBox, Loading } from "../ui";

/** A screen is given what its path names, such as id of /jobs/:id. */
export type ScreenProps = { params: Record<string, string> };
export type Screen = {
  paths: string[];
  load: () => Promise<{ default: ComponentType<ScreenProps> }>;
  /** Without the shell around it. */
  bare?: boolean;
};

const found = import.meta.glob<{ default: Screen }>("./*/screen.ts", { eager: true });
const screens = Object.values(found).map((m) => ({ ...m.default, view: lazy(m.default.load) }));
// The more a path says, the earlier it is tried: /jobs/new before /jobs/:id, /* last.
const routes = screens
  .flatMap((s) => s.paths.map((path) => ({ path, screen: s })))
  .sort((a, b) => weight(b.path) - weight(a.path));

function weight(path: string): number {
  if (path === "/*") return -1;
  return path.split("/").filter(Boolean).reduce((n, p) => n * 4 + (p === "*" ? 1 : p.startsWith(":") ? 2 : 3), 0);
}

/** useScreen is the screen of the present path. */
export function useScreen(): { bare: boolean; view: ReactNode } {
  const path = usePath();
  for (const r of routes) {
    const params = match(r.path, path);
    if (!params) continue;
    const View = r.screen.view;
    return {
      bare: r.screen.bare ?? false,
      view: (
        <Guard key={r.path}>
          <Suspense fallback={<Loading />}>
            <View params={params} />
          </Suspense>
        </Guard>
      ),
    };
  }
  return { bare: false, view: null };
}

/** Guard keeps a mistake in one screen from taking the others along. */
class Guard extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };
  static getDerivedStateFromError(error: unknown) {
    return { error };
  }
  override render() {
    if (this.state.error === undefined) return this.props.children;
    return <ErrorBox error={this.state.error} what="This screen has failed" retry={() => location.reload()} />;
  }
}
