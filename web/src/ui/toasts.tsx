import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

const SHOWN_MS = 6000;
const AT_ONCE = 3;

export interface Toast {
  readonly number: number;
  readonly text: string;
}

/** Short messages that go away by themselves. */
export function useToasts(): readonly [readonly Toast[], (text: string) => void] {
  const [toasts, setToasts] = useState<readonly Toast[]>([]);
  const count = useRef(0);
  const timers = useRef(new Set<ReturnType<typeof setTimeout>>());
  useEffect(() => {
    const pending = timers.current;
    return () => pending.forEach(clearTimeout);
  }, []);
  const show = useCallback((text: string) => {
    const number = ++count.current;
    setToasts((before) => [...before.filter((toast) => toast.text !== text), { number, text }].slice(-AT_ONCE));
    const timer = setTimeout(() => {
      timers.current.delete(timer);
      setToasts((before) => before.filter((toast) => toast.number !== number));
    }, SHOWN_MS);
    timers.current.add(timer);
  }, []);
  return [toasts, show];
}

export function Toasts({ toasts }: { readonly toasts: readonly Toast[] }) {
  return (
    <div class="toasts" role="status">
      {toasts.map(({ number, text }) => (
        <p key={number}>{text}</p>
      ))}
    </div>
  );
}
