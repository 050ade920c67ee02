import { type ReactNode, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { useFeatures } from "../hooks/use-session";
import { words } from "../words";
import { numberText } from "../words/format";
import { Banners } from "./banners";
import { CommandPalette } from "./command-palette";
import styles from "./frame.module.css";
import { KeyboardHelp } from "./keyboard-help";
import { Navigation } from "./navigation";
import { TopBar } from "./top-bar";
import { useFrameKeys } from "./use-frame-keys";

/** What is the same on every page: navigation, top bar, banners, footer, palette and keys. */
export function Frame({ children }: { children: ReactNode }) {
  const [open, setOpen] = useState<"palette" | "keyboard" | "navigation" | null>(null);
  const [location] = useLocation();
  const main = useRef<HTMLElement>(null);
  const seen = useRef(location);
  useFrameKeys({ onPalette: () => setOpen("palette"), onHelp: () => setOpen("keyboard") });

  useEffect(() => {
    if (seen.current === location) return;
    seen.current = location;
    // A new page begins at its top, and a screen reader reads it from there.
    main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [location]);

  return (
    <div className={styles.frame}>
      <button type="button" className={styles.skip} onClick={() => main.current?.focus()}>
        {words.shell.skip}
      </button>
      <TopBar
        onPalette={() => setOpen("palette")}
        onKeyboard={() => setOpen("keyboard")}
        onMenu={() => setOpen(open === "navigation" ? null : "navigation")}
        menuOpen={open === "navigation"}
      />
      <Navigation open={open === "navigation"} onClose={() => setOpen(null)} />
      <main ref={main} tabIndex={-1} className={styles.main}>
        <Banners />
        {children}
      </main>
      <Footer />
      {open === "palette" && <CommandPalette onClose={() => setOpen(null)} onHelp={() => setOpen("keyboard")} />}
      {open === "keyboard" && <KeyboardHelp onClose={() => setOpen(null)} />}
    </div>
  );
}

function Footer() {
  const features = useFeatures();
  return (
    <footer className={styles.footer}>
      {features && <span>{words.shell.version(features.version)}</span>}
      {features?.schema_version && <span>{words.shell.schemaVersion(numberText(features.schema_version))}</span>}
      {features?.read_only && <span className={styles.readOnly}>{words.shell.readOnly}</span>}
    </footer>
  );
}
