import { Button } from "../../parts/button";
import { CopyButton } from "../../parts/copy-button";
import { Dialog } from "../../parts/dialog";
import { words } from "../../words";
import styles from "./system.module.css";

interface SecretOnceProps {
  title: string;
  about: string;
  secret: string;
  onClose: () => void;
}

/** A secret right after it was made: the one time that it is shown. */
export function SecretOnce({ title, about, secret, onClose }: SecretOnceProps) {
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={
        <Button tone="primary" onClick={onClose}>
          {words.close}
        </Button>
      }
    >
      <p>{about}</p>
      <p className={styles.secret}>
        <code>{secret}</code>
        <CopyButton text={secret} />
      </p>
    </Dialog>
  );
}
