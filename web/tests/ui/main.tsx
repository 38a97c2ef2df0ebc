/** The page in one of its states: `scenes.html?scene=listening&theme=dark`. Not part of what is served. */

import { render } from 'preact';
import '../../styles/index.css';
import { App } from '../../src/ui/app';
import { parse } from '../../src/ui/preferences';
import { logEntries, sceneNames, sceneOf } from './scenes';
import { type Call, ScriptedAgent } from './scripted-agent';

declare global {
  interface Window {
    readonly scenes: readonly string[];
    readonly agent: ScriptedAgent;
    readonly keys: (string | null)[];
    readonly calls: () => readonly Call[];
  }
}

const query = new URLSearchParams(location.search);
const scene = sceneOf(query.get('scene') ?? 'welcome', performance.now(), Date.now());
if (!scene) throw new Error(`There is no such scene; there are ${sceneNames().join(', ')}`);

const agent = new ScriptedAgent(scene.state);
agent.levels = { microphone: scene.microphone ?? 0, assistant: scene.assistant ?? 0 };
agent.entries = logEntries(Date.UTC(2026, 0, 2, 14, 3, 27));
const keys: (string | null)[] = [];
const calls = () => agent.calls;
Object.assign(window, { agent, keys, calls, scenes: sceneNames() });

const stored = JSON.stringify({ theme: query.get('theme'), captions: query.get('captions') });
render(
  <App
    agent={agent}
    preferences={parse(stored)}
    apiKey={query.get('key')}
    onPreferences={() => undefined}
    onKey={(key) => keys.push(key)}
  />,
  document.body,
);

const opener = { settings: 'Settings', insights: 'Timings', log: 'Event log', help: 'Help' };
const wanted = scene.panel ?? scene.dialog;
if (wanted) {
  const named = [...document.querySelectorAll('button')].find(
    (button) => (button.getAttribute('aria-label') ?? button.textContent) === opener[wanted],
  );
  named?.click();
}
if (scene.notice) setTimeout(() => agent.emit('notice', { code: 'microphone-switched', detail: '' }), 200);
