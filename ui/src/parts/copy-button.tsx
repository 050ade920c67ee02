import { useEffect, useState } from "react";
import { words } from "../words";
import { IconButton } from "./button";
import { copyText } from "./copy-text";

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
