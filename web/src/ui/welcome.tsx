import { IDEAS } from './copy';
import { Icon } from './icons';

interface WelcomeProps {
  readonly starting: boolean;
  readonly onStart: () => void;
  readonly onType: () => void;
  readonly onIdea: (text: string) => void;
  readonly onCancel: () => void;
}

/** The empty page: one button, and what to try. */
export function Welcome({ starting, onStart, onType, onIdea, onCancel }: WelcomeProps) {
  return (
    <div class="welcome">
      <h2>Say hello</h2>
      <p class="lead">It listens while you speak and answers out loud. Interrupt it whenever you like.</p>
      <div class="welcome-buttons">
        <button
          type="button"
          class={`button ${starting ? '' : 'primary'}`}
          aria-busy={starting}
          onClick={starting ? onCancel : onStart}
        >
          <Icon name={starting ? 'close' : 'mic'} /> {starting ? 'Cancel' : 'Start talking'}
        </button>
        {!starting && (
          <button type="button" class="button quiet" onClick={onType}>
            Type instead
          </button>
        )}
      </div>
      {!starting && (
        <section class="ideas" aria-labelledby="ideas">
          <h3 id="ideas">Things to try</h3>
          <ul>
            {IDEAS.map((idea) => (
              <li key={idea}>
                <button type="button" onClick={() => onIdea(idea)}>
                  {idea}
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}
