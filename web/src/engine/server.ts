/** What the server tells over plain HTTP. */

import type { Occupancy } from './api';

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null
    ? Object.entries(value).find(([key]) => key === name)?.[1]
    : undefined;
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function iceServer(value: unknown): RTCIceServer[] {
  const [urls, username, credential] = ['urls', 'username', 'credential'].map((name) => field(value, name));
  const known = isText(urls) ? [urls] : Array.isArray(urls) ? urls.filter(isText) : [];
  if (known.length === 0) return [];
  return [isText(username) && isText(credential) ? { urls: known, username, credential } : { urls: known }];
}

export class Server {
  /** http or https, without a slash at the end. */
  readonly baseUrl: string;
  apiKey: string | null;

  constructor(baseUrl: string, apiKey: string | null) {
    this.baseUrl = baseUrl.replace(/\/+$/, '');
    this.apiKey = apiKey;
  }

  /** The names that `voice` may have; empty if the server does not say. */
  async voices(): Promise<readonly string[]> {
    const models = field(await this.#get('/v1/models'), 'data');
    const voices = Array.isArray(models) ? field(models[0], 'voices') : null;
    return Array.isArray(voices) ? voices.filter(isText) : [];
  }

  /** null: the server does not say. */
  async occupancy(): Promise<Occupancy | null> {
    const sessions = field(await this.#get('/health'), 'sessions');
    const current = field(sessions, 'current');
    const max = field(sessions, 'max');
    return typeof current === 'number' && typeof max === 'number' ? { current, max } : null;
  }

  /** STUN and TURN servers, with credentials that are good for a while; none where the server names none. */
  async iceServers(): Promise<readonly RTCIceServer[]> {
    const servers = field(await this.#get('/v1/realtime/ice_servers'), 'ice_servers');
    return Array.isArray(servers) ? servers.flatMap(iceServer) : [];
  }

  async #get(path: string): Promise<unknown> {
    const headers: Record<string, string> = this.apiKey === null ? {} : { Authorization: `Bearer ${this.apiKey}` };
    try {
      const response = await fetch(this.baseUrl + path, { cache: 'no-store', headers });
      return await response.json();
    } catch {
      return null; // whoever asks can do without; that the server is gone is told by its connection
    }
  }
}
