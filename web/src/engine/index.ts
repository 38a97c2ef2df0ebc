export { createAgent } from './agent';
export type * from './api';
