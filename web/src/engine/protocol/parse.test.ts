import { describe, expect, it } from 'vitest';
import { parseAudio, parseBinary, parseRefusal, parseText } from './parse';

describe('text', () => {
  it('becomes a typed event', () => {
    const text = '{"type":"input_audio_buffer.committed","item_id":"u1","previous_item_id":null}';
    expect(parseText(text)?.event).toMatchObject({ type: 'input_audio_buffer.committed', item_id: 'u1' });
  });

  it('that is no event is none', () => {
    for (const text of ['', '{', '[]', 'null', '"x"', '{"type":1}']) expect(parseText(text)).toBeNull();
  });

  it('of a type that is not used is kept for the log', () => {
    expect(parseText('{"type":"rate_limits.updated","rate_limits":[]}')).toEqual({
      raw: { type: 'rate_limits.updated', rate_limits: [] },
      event: null,
    });
  });

  it.each([
    '{"type":"input_audio_buffer.committed"}',
    '{"type":"input_audio_buffer.speech_started","item_id":"u1","audio_start_ms":"0"}',
    '{"type":"response.done","response":[]}',
    '{"type":"toString"}',
  ])('that lacks what must be there is no event: %s', (text) => {
    expect(parseText(text)?.event).toBeNull();
  });
});

const HEADER = '{"type":"response.output_audio.delta","response_id":"r1","item_id":"a1","content_index":0}';

describe('sound', () => {
  it('comes after its event in a binary frame', () => {
    const frame = Uint8Array.of(...new TextEncoder().encode(`${HEADER}\n`), 0x01, 0x00, 0x0a, 0xff);
    expect(parseBinary(frame)).toEqual({
      raw: {
        type: 'response.output_audio.delta',
        response_id: 'r1',
        item_id: 'a1',
        content_index: 0,
        bytes: 4,
      },
      responseId: 'r1',
      itemId: 'a1',
      pcm: Int16Array.of(1, -246),
    });
  });

  it('is found in a frame that is a view of a larger buffer', () => {
    const bytes = new TextEncoder().encode(`xxx${HEADER}\n`);
    expect(parseBinary(Uint8Array.of(...bytes, 1, 0).subarray(3))?.pcm).toEqual(Int16Array.of(1));
  });

  it('loses half a sample and not the rest', () => {
    expect(parseBinary(Uint8Array.of(...new TextEncoder().encode(`${HEADER}\n`), 1, 0, 2))?.pcm).toHaveLength(1);
  });

  it('comes as base64 from servers without the extension', () => {
    const incoming = parseText(`${HEADER.slice(0, -1)},"delta":"AQAK/w=="}`);
    expect(incoming && parseAudio(incoming)).toMatchObject({ itemId: 'a1', pcm: Int16Array.of(1, -246) });
  });

  it.each(['no newline', 'no json\nx', '{"type":"x"}\nx'])('that nobody can place is none: %j', (text) => {
    expect(parseBinary(new TextEncoder().encode(text))).toBeNull();
  });

  it('in broken base64 is none', () => {
    const incoming = parseText(`${HEADER.slice(0, -1)},"delta":"*"}`);
    expect(incoming && parseAudio(incoming)).toBeNull();
  });
});

describe('a refusal', () => {
  it('says why', () => {
    const body = '{"error":{"message":"Full.","type":"server_error","param":null,"code":"overloaded"}}';
    expect(parseRefusal(body)).toEqual({ code: 'overloaded', message: 'Full.' });
  });

  it.each(['', '<html>502</html>', 'null', '{"error":"x"}', '{"error":{"code":5,"message":"x"}}'])(
    'that is not the server’s says nothing: %j',
    (body) => {
      expect(parseRefusal(body)).toBeNull();
    },
  );
});
