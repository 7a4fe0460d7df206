import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { whenUnauthorized } from "./api/http";
import { queries } from "./api/query";
import { applyTheme, recall, type Theme } from "./prefs";
import { navigate } from "./router";
import { useScreen } from "./screens";
import { Shell } from "./ui/shell";
import "./ui/tokens.css";
import "./ui/base.css";
import "./ui/parts.css";

applyTheme(recall<Theme>("theme", "system"));
whenUnauthorized(() => {
  if (location.pathname !== "/sign-in") navigate("/sign-in?next=" + encodeURIComponent(location.pathname + location.search + location.hash));
});

function App() {
  const { bare, view } = useScreen();
  return bare ? view : <Shell>{view}</Shell>;
}

const root = document.getElementById("root");
if (root)
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
