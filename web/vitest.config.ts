import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'tests/**/*.test.ts'],
    // Logic needs no page; what needs one is tested in a browser, by tests/web.
    environment: 'node',
    pool: 'threads',
  },
});
