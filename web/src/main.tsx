import { render } from 'preact';
import '../styles/index.css';
import { createAgent } from './engine';
import { App } from './ui/app';
import { load, loadKey, save, saveKey, shelf } from './ui/preferences';

const lasting = shelf(() => localStorage);
const passing = shelf(() => sessionStorage);
const apiKey = loadKey(passing);

render(
  <App
    agent={createAgent({ apiKey })}
    preferences={load(lasting)}
    apiKey={apiKey}
    onPreferences={(preferences) => save(lasting, preferences)}
    onKey={(key) => saveKey(passing, key)}
  />,
  document.body,
);
