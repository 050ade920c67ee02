import { useEffect, useState } from "react";
import { words } from "../words";
import { IconButton } from "./button";

/** navigator.clipboard is missing over plain http: then a hidden field is copied. */
async function copyText(text: string): Promise<void> {
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard) return clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- the only way without a secure context
  document.execCommand("copy");
  field.remove();
}

export function CopyButton({ text, label = words.copy }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <>
      <IconButton
        icon={copied ? "check" : "copy"}
        label={label}
        onClick={() => void copyText(text).then(() => setCopied(true))}
      />
      <span role="status" className="visually-hidden">
        {copied ? words.copied : ""}
      </span>
    </>
  );
}
