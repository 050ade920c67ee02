import { SHORTCUTS_KEY } from "../hooks/use-shortcuts";
import { useStored } from "../hooks/use-stored";
import { Dialog } from "../parts/dialog";
import { CheckField } from "../parts/field";
import { NAVIGATION } from "../routes";
import { words } from "../words";
import styles from "./keyboard-help.module.css";

const text = words.shell.keyboard;
const GROUPS: { title: string; keys: (readonly [string, string])[] }[] = [
  {
    title: text.groups.anywhere,
    keys: [
      ["/", text.search],
      ["Ctrl K", text.palette],
      ["p", text.pause],
      ["t", text.theme],
      ["?", text.help],
    ],
  },
  {
    title: text.groups.lists,
    keys: [
      ["j", text.down],
      ["k", text.up],
      ["x", text.select],
      ["Enter", text.open],
      ["a", text.approve],
      ["c", text.cancel],
      ["r", text.retry],
      [".", text.fresh],
    ],
  },
  { title: text.groups.go, keys: NAVIGATION.map((entry) => [entry.key, entry.label] as const) },
];

export function KeyboardHelp({ onClose }: { onClose: () => void }) {
  const [enabled, setEnabled] = useStored(SHORTCUTS_KEY.replace("rowlock.", ""), ["on", "off"]);
  return (
    <Dialog title={text.title} onClose={onClose} wide>
      <div className={styles.groups}>
        {GROUPS.map((group) => (
          <section key={group.title}>
            <h3>{group.title}</h3>
            <dl>
              {group.keys.map(([key, meaning]) => (
                <div key={key}>
                  <dt>
                    <kbd>{key}</kbd>
                  </dt>
                  <dd>{meaning}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <CheckField
        label={text.enabled}
        hint={text.enabledHint}
        checked={enabled === "on"}
        onChange={(event) => setEnabled(event.target.checked ? "on" : "off")}
      />
    </Dialog>
  );
}
