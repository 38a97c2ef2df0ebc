/** The Realtime contract's events, as far as this client sends or reads them. */

// Items

export interface ContentPart {
  readonly type: 'input_text' | 'input_audio' | 'input_image' | 'output_text' | 'output_audio';
  readonly text?: string | null;
  readonly transcript?: string | null;
}

export interface MessageItem {
  readonly id: string;
  readonly type: 'message';
  readonly role: 'system' | 'user' | 'assistant';
  readonly status?: string;
  readonly content: readonly ContentPart[];
}

export interface FunctionCallItem {
  readonly id: string;
  readonly type: 'function_call';
  readonly status?: string;
  readonly call_id: string;
  readonly name: string;
  readonly arguments: string;
}

export interface FunctionCallOutputItem {
  readonly id: string;
  readonly type: 'function_call_output';
  readonly call_id: string;
  readonly output: string;
}

export type Item = MessageItem | FunctionCallItem | FunctionCallOutputItem;

/** The words of a message: written, or as transcribed. */
export function textOf(item: MessageItem): string {
  const words = item.content.map((part) => part.text ?? part.transcript ?? '');
  return words.filter((text) => text !== '').join(' ');
}

// Session

export type TurnDetectionObject =
  | {
      readonly type: 'server_vad';
      readonly threshold?: number;
      readonly prefix_padding_ms?: number;
      readonly silence_duration_ms?: number;
      readonly interrupt_response?: boolean;
    }
  | {
      readonly type: 'semantic_vad';
      readonly eagerness?: 'low' | 'medium' | 'high' | 'auto';
      readonly interrupt_response?: boolean;
    };

export interface ToolObject {
  readonly type: 'function';
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** Of `session.update`: what is absent stays as it is. */
export interface SessionPatch {
  readonly type: 'realtime';
  readonly instructions?: string;
  readonly output_modalities?: readonly ['audio' | 'text'];
  readonly tools?: readonly ToolObject[];
  readonly audio?: {
    readonly input?: {
      readonly transcription?: { readonly language: string | null };
      readonly turn_detection?: TurnDetectionObject | null;
    };
    readonly output?: { readonly voice?: string; readonly speed?: number };
  };
}

/** As the server shows it. */
export interface SessionObject {
  readonly id: string;
  readonly model: string;
  readonly expires_at?: number | null;
  readonly instructions: string;
  readonly output_modalities: readonly string[];
  readonly audio: {
    readonly input: {
      readonly transcription?: { readonly language?: string | null } | null;
      readonly turn_detection: TurnDetectionObject | null;
    };
    readonly output: { readonly voice: string | { readonly id: string }; readonly speed: number };
  };
}

export interface ResponseObject {
  readonly id: string;
  readonly status: 'in_progress' | 'completed' | 'cancelled' | 'failed' | 'incomplete';
  readonly status_details?: {
    readonly reason?: string;
    readonly error?: { readonly code?: string; readonly message?: string } | null;
  } | null;
  readonly conversation_id?: string | null;
  /** An extension: milliseconds after the end of speech. */
  readonly timings?: { readonly turn?: { readonly stopped?: number | null } };
}

export interface ErrorObject {
  readonly type?: string;
  readonly code?: string | null;
  readonly message: string;
  readonly param?: string | null;
  readonly event_id?: string | null;
}

// Events

interface Place {
  readonly response_id: string;
  readonly item_id: string;
}

const TRANSCRIPTION = 'conversation.item.input_audio_transcription';

export type ServerEvent =
  | { readonly type: 'session.created' | 'session.updated'; readonly session: SessionObject }
  | { readonly type: 'error'; readonly error: ErrorObject }
  | {
      readonly type: 'input_audio_buffer.speech_started';
      readonly audio_start_ms: number;
      readonly item_id: string;
    }
  | { readonly type: 'input_audio_buffer.speech_stopped'; readonly audio_end_ms: number; readonly item_id: string }
  | { readonly type: 'input_audio_buffer.committed'; readonly item_id: string }
  | { readonly type: 'input_audio_buffer.cleared' }
  | {
      readonly type: 'conversation.item.added' | 'conversation.item.done' | 'conversation.item.retrieved';
      readonly item: Item;
    }
  | { readonly type: 'conversation.item.deleted'; readonly item_id: string }
  | { readonly type: 'conversation.item.truncated'; readonly item_id: string; readonly audio_end_ms: number }
  | { readonly type: `${typeof TRANSCRIPTION}.delta`; readonly item_id: string; readonly delta: string }
  | { readonly type: `${typeof TRANSCRIPTION}.completed`; readonly item_id: string; readonly transcript: string }
  | { readonly type: `${typeof TRANSCRIPTION}.failed`; readonly item_id: string }
  | { readonly type: 'response.created' | 'response.done'; readonly response: ResponseObject }
  | {
      readonly type: 'response.output_item.added' | 'response.output_item.done';
      readonly response_id: string;
      readonly item: Item;
    }
  | ({
      readonly type: 'response.output_audio_transcript.delta' | 'response.output_text.delta';
      readonly delta: string;
    } & Place)
  | ({ readonly type: 'response.output_audio.done' } & Place)
  | ({ readonly type: 'response.function_call_arguments.delta'; readonly delta: string } & Place)
  | {
      readonly type: 'output_audio_buffer.started' | 'output_audio_buffer.stopped' | 'output_audio_buffer.cleared';
      readonly response_id: string;
    };

export type ClientEvent = { readonly event_id?: string } & (
  | { readonly type: 'session.update'; readonly session: SessionPatch }
  | { readonly type: 'input_audio_buffer.commit' | 'input_audio_buffer.clear' | 'output_audio_buffer.clear' }
  | { readonly type: 'conversation.item.create'; readonly item: Item; readonly previous_item_id?: string }
  | { readonly type: 'conversation.item.retrieve' | 'conversation.item.delete'; readonly item_id: string }
  | {
      readonly type: 'conversation.item.truncate';
      readonly item_id: string;
      readonly content_index: 0;
      readonly audio_end_ms: number;
    }
  | { readonly type: 'response.create' }
  | { readonly type: 'response.cancel'; readonly response_id: string }
);
