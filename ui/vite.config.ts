import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const api = process.env.ROWLOCK_API ?? "http://127.0.0.1:8000";

export default defineConfig({
  // Relative addresses: one build serves under any prefix, which the server writes into <base href>.
  base: "./",
  plugins: [react()],
  build: {
    outDir: "../src/rowlock/ui_dist",
    emptyOutDir: true,
    target: ["chrome123", "firefox120", "safari17.5"],
    license: { fileName: "THIRD_PARTY_LICENSES.md" },
    // An image or font inside a style sheet would need `data:` in the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: {
    host: "127.0.0.1",
    proxy: Object.fromEntries(
      ["/api", "/healthz", "/readyz", "/metrics"].map((path) => [path, { target: api, changeOrigin: false }]),
    ),
  },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"], setupFiles: ["src/test-setup.ts"] },
});
