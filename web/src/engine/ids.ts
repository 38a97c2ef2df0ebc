/** Ids of conversation items that this side makes. Not `randomUUID`, which only secure pages have. */
export function itemId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `item_${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}
