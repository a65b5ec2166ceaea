import { defineConfig } from "vite";

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
  // For `npm run dev`: WINDLASS_UI is the address that `windlass ui` prints, without the path.
  server: { proxy: { "/api": process.env["WINDLASS_UI"] ?? "http://127.0.0.1:8765" } },
});
