/** A frame of a Python traceback: where, and the lines of source below it. */
export interface Frame {
  file: string;
  line: number;
  name: string;
  source: string[];
  /** False for the frames of libraries, Python and Rowlock itself. */
  own: boolean;
}

export type Part = { type: "frames"; own: boolean; frames: Frame[] } | { type: "text"; text: string };

const FRAME = /^ {2}File "(.+?)", line (\d+)(?:, in (.*))?$/;
const LIBRARY =
  /[/\\](site-packages|dist-packages)[/\\]|[/\\]lib(64)?[/\\]python\d|^<frozen |[/\\]rowlock[/\\](flow|compose|store|upkeep|desk|model)[/\\]|^<string>$/;

/** A traceback in parts: own frames, frames of libraries to fold, and text between them such as the error's line. */
export function partsOf(traceback: string): Part[] {
  const parts: Part[] = [];
  let frame: Frame | null = null;
  for (const line of traceback.replace(/\n$/, "").split("\n")) {
    const found = FRAME.exec(line);
    const last: Part | undefined = parts.at(-1);
    if (found) {
      const file = found[1] ?? "";
      frame = { file, line: Number(found[2]), name: found[3] ?? "", source: [], own: !LIBRARY.test(file) };
      if (last?.type === "frames" && last.own === frame.own) last.frames.push(frame);
      else parts.push({ type: "frames", own: frame.own, frames: [frame] });
    } else if (frame && line.startsWith("    ")) {
      frame.source.push(line.slice(4));
    } else {
      frame = null;
      if (last?.type === "text") last.text += `\n${line}`;
      else parts.push({ type: "text", text: line });
    }
  }
  return parts;
}
