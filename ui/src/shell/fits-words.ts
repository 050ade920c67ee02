/** Whether each word that was typed is in the text, in any order: "pause rep" finds "Pause lane reports". */
export function fitsWords(text: string, typed: string): boolean {
  const found = text.toLowerCase();
  return typed
    .toLowerCase()
    .split(/\s+/)
    .every((word) => found.includes(word));
}
