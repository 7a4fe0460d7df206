import { gzipSync, brotliCompressSync, constants } from "node:zlib";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const out = "../internal/dashboard/dist";

// All scripts together, in KB, compressed with Brotli, as browsers take them over HTTPS and from loopback (with gzip it is a tenth more).
const budget = 200;

// compress writes each file again as .gz and .br, for the binary to serve as it is, and fails where scripts outgrow the budget.
function compress(): Plugin {
  let root = "";
  return {
    name: "compress",
    apply: "build",
    configResolved(c) {
      root = c.root;
    },
    closeBundle() {
      const dist = join(root, out);
      let all = 0;
      for (const name of readdirSync(dist, { recursive: true }) as string[]) {
        if (!/\.(js|css|svg|html)$/.test(name)) continue;
        const data = readFileSync(join(dist, name));
        const gz = gzipSync(data, { level: 9 });
        const br = brotliCompressSync(data, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } });
        if (name.endsWith(".js")) all += br.length;
        writeFileSync(join(dist, name + ".gz"), gz);
        writeFileSync(join(dist, name + ".br"), br);
      }
      const kb = Math.round(all / 1024);
      console.log(`scripts: ${kb} KB compressed, of ${budget} KB`);
      if (kb > budget) throw new Error(`the scripts are ${kb} KB compressed; the budget is ${budget} KB`);
    },
  };
}

export default defineConfig({
  plugins: [react(), compress()],
  build: {
    outDir: out,
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // the content security policy allows data: for pictures only
    reportCompressedSize: false,
    // What people look at day by day is one file: it is a tenth smaller than apart, and other screens of it are there at once. Parts that few people open are files of their own.
    rolldownOptions: { output: { codeSplitting: { includeDependenciesRecursively: false, groups: [{ name: "daily", test: /src\/screens\/(now|jobs|job|executions|execution|dead-letters|queues|workers)\/(?!screen\.ts|versions\.tsx)/ }] } } },
  },
  server: {
    // For work on the pages: `carillon dev --demo` beside it.
    proxy: { "/api": { target: "http://127.0.0.1:8080", changeOrigin: true }, "/docs": "http://127.0.0.1:8080" },
  },
});
