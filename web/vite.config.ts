import { defineConfig } from 'vite';

export default defineConfig({
  // Relative addresses: the page works below any prefix that a reverse proxy puts before it.
  base: './',
  publicDir: false,
  worker: { format: 'es' },
  build: {
    // Inside the Python package, so that whoever installs it needs no Node.
    outDir: '../voice_omni/server/static',
    emptyOutDir: true,
    target: 'es2022',
    // The page's content security policy lets no `data:` script or worklet in.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
});
