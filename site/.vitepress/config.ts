// The site of docs/: the pages as they are, a sidebar by the five parts, and a search that needs no server.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitepress";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../..");
const docs = resolve(here, "../pages"); // a copy of docs/ that scripts/site makes: pages must lie where Vue is found
const source = "https://github.com/carillon-jobs/carillon/blob/main/";

// The pages that come first in their part, in this order. The others follow by title.
const parts: { folder: string; title: string; first: string[] }[] = [
  { folder: "start", title: "Start", first: ["quickstart.md", "concepts.md", "glossary.md"] },
  { folder: "guides", title: "Guides", first: ["schedules.md", "callbacks.md", "workers.md", "commands.md", "retries.md", "workflows.md", "workflow-recipes.md", "limits.md", "secrets.md"] },
  { folder: "reference", title: "Reference", first: ["api.md", "cli.md", "config.md", "errors.md", "metrics.md", "cron.md", "expressions.md"] },
  { folder: "operations", title: "Operations", first: ["README.md", "install.md", "upgrade.md", "backup.md", "scale.md", "failures.md"] },
  { folder: "internals", title: "Internals", first: ["architecture.md", "development.md", "testing.md"] },
];

const title = (file: string) => /^# (.+)$/m.exec(readFileSync(file, "utf8"))?.[1].replaceAll("`", "") ?? file;
const address = (file: string) => "/" + relative(docs, file).split(sep).join("/").replace(/README\.md$/, "").replace(/\.md$/, "");

function pages(folder: string, first: string[] = []) {
  const rank = (name: string) => (first.includes(name) ? first.indexOf(name) : first.length);
  return readdirSync(join(docs, folder))
    .filter((name) => name.endsWith(".md"))
    .map((name) => ({ name, text: title(join(docs, folder, name)), link: address(join(docs, folder, name)) }))
    .sort((a, b) => rank(a.name) - rank(b.name) || a.text.localeCompare(b.text, "en", { numeric: true }))
    .map(({ text, link }) => ({ text, link }));
}

const group = (folder: string, text: string) => ({ text, collapsed: true, items: pages(folder) });
const sidebar = parts.map(({ folder, title: text, first }) => ({
  text,
  collapsed: folder === "internals",
  items: [
    ...pages(folder, first),
    ...(folder === "operations" ? [group("operations/runbooks", "Runbooks")] : []),
    ...(folder === "internals" ? [group("internals/adr", "Decisions")] : []),
  ],
}));

export default defineConfig({
  title: "Carillon",
  description: "A distributed job scheduler and durable job queue in one Go binary",
  srcDir: docs,
  outDir: resolve(root, "dist/site"),
  cacheDir: resolve(root, ".cache/site"),
  cleanUrls: true,
  ignoreDeadLinks: "localhostLinks",
  rewrites: (id) => id.replace(/README\.md$/, "index.md"),
  markdown: {
    config(md) {
      // A link to a file outside docs/ leads to the repository.
      const open = md.renderer.rules.link_open ?? ((tokens, i, options, _env, self) => self.renderToken(tokens, i, options));
      md.renderer.rules.link_open = (tokens, i, options, env, self) => {
        const href = tokens[i].attrGet("href") ?? "";
        if (!/^([a-z]+:|#|\/)/.test(href) && env.path) {
          const [path, anchor] = href.split("#");
          const to = relative(root, resolve(root, "docs", relative(docs, dirname(env.realPath ?? env.path)), path)).split(sep).join("/");
          if (!to.startsWith("docs/") || !/\.md$|\/$/.test(path) || /^docs\/(pictures|internals\/adr)\/?$/.test(to)) tokens[i].attrSet("href", source + to + (anchor ? "#" + anchor : ""));
        }
        return open(tokens, i, options, env, self);
      };
    },
  },
  themeConfig: {
    nav: parts.map(({ folder, title: text, first }) => ({ text, link: address(join(docs, folder, first[0])), activeMatch: `^/${folder}/` })),
    sidebar,
    outline: "deep",
    search: { provider: "local" },
    socialLinks: [{ icon: "github", link: "https://github.com/carillon-jobs/carillon" }],
  },
});
