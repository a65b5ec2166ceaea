import { defineConfig } from "vite";

const SERVER = "http://127.0.0.1:8765";

// The content security policy of the server allows no inline script, style or font, so nothing is inlined.
export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/windlass/web/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.txt" },
  },
  // For `npm run dev` beside `windlass ui --port 8765 --host 127.0.0.1:5173 --no-open`. Open the path of its link here.
  server: { host: "127.0.0.1", port: 5173, proxy: { "/api": SERVER, "/login": SERVER } },
});
