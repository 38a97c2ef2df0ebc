import { defineConfig } from 'vite';

/** The page in all of its states, for pictures and tests; `--outDir` says where to. */
export default defineConfig({
  root: new URL('.', import.meta.url).pathname,
  base: './',
  publicDir: false,
  build: { target: 'es2022', assetsInlineLimit: 0, emptyOutDir: true, rolldownOptions: { input: 'scenes.html' } },
});
