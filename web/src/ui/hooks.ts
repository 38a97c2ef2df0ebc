import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { Agent, AgentState } from '../engine/api';

/** The agent's state; draws again when it changes. */
export function useAgentState(agent: Agent): AgentState {
  const [state, setState] = useState(agent.state);
  useEffect(() => {
    setState(agent.state);
    return agent.on('state', setState);
  }, [agent]);
  return state;
}

/** Whether a media query holds, now and later. */
export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const changed = () => setHolds(list.matches);
    changed();
    list.addEventListener('change', changed);
    return () => list.removeEventListener('change', changed);
  }, [query]);
  return holds;
}

export function useReducedMotion(): boolean {
  return useMedia('(prefers-reduced-motion: reduce)');
}

/** Calls back on every frame while `running`; the callback need not be stable. */
export function useFrames(running: boolean, callback: () => void): void {
  const latest = useRef(callback);
  latest.current = callback;
  useEffect(() => {
    if (!running) return;
    let request = requestAnimationFrame(function frame() {
      request = requestAnimationFrame(frame);
      latest.current();
    });
    return () => cancelAnimationFrame(request);
  }, [running]);
}

/** The time by `clock`, anew every `everyMs` while `running`. */
export function useNow(clock: () => number, everyMs: number, running: boolean): number {
  const [now, setNow] = useState(clock);
  useEffect(() => {
    setNow(clock());
    if (!running) return;
    const timer = setInterval(() => setNow(clock()), everyMs);
    return () => clearInterval(timer);
  }, [clock, everyMs, running]);
  return now;
}

/** A listener on the window for as long as the component lives; it need not be stable. */
export function useWindow<K extends keyof WindowEventMap>(kind: K, listener: (event: WindowEventMap[K]) => void): void {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => {
    const heard = (event: WindowEventMap[K]) => latest.current(event);
    window.addEventListener(kind, heard);
    return () => window.removeEventListener(kind, heard);
  }, [kind]);
}

/** A function that keeps its identity and always does what the latest `callback` does. */
export function useStable<A extends unknown[], R>(callback: (...args: A) => R): (...args: A) => R {
  const latest = useRef(callback);
  latest.current = callback;
  return useCallback((...args: A) => latest.current(...args), []);
}
