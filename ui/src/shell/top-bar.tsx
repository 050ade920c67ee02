import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useLocation } from "wouter";
import { logOut } from "../api/session";
import { useFeatures, useMe } from "../hooks/use-session";
import { Button, IconButton } from "../parts/button";
import { classNames } from "../parts/class-names";
import { Icon } from "../parts/icon";
import { Menu } from "../parts/menu";
import { words } from "../words";
import { LivePill } from "./live-pill";
import { Mark } from "./mark";
import { chooseTheme, THEMES, useTheme } from "./theme";
import styles from "./top-bar.module.css";

interface TopBarProps {
  onPalette: () => void;
  onKeyboard: () => void;
  onMenu: () => void;
  menuOpen: boolean;
}

export function TopBar({ onPalette, onKeyboard, onMenu, menuOpen }: TopBarProps) {
  return (
    <header className={styles.bar}>
      <IconButton
        icon={menuOpen ? "close" : "menu"}
        label={words.shell.menu}
        aria-expanded={menuOpen}
        className={styles.menu}
        onClick={onMenu}
      />
      <Link href="/" className={styles.brand}>
        <Mark />
        <span>{words.shell.product}</span>
        <Instance />
      </Link>
      <Button icon="search" className={styles.palette} onClick={onPalette}>
        <span className={styles.paletteText}>{words.shell.palette.open}</span>
        <kbd>Ctrl K</kbd>
      </Button>
      <div className={styles.right}>
        <LivePill />
        <ThemeMenu />
        <UserMenu onKeyboard={onKeyboard} />
      </div>
    </header>
  );
}

/** Which installation this is: its name on its colour, or the host of the address. */
function Instance() {
  const instance = useFeatures()?.instance;
  return instance ? (
    <span className={classNames(styles.named, styles[instance.colour])}>{instance.name}</span>
  ) : (
    <span className={styles.instance}>{location.host}</span>
  );
}

function ThemeMenu() {
  const theme = useTheme();
  return (
    <Menu
      label={words.shell.theme.label}
      items={THEMES.map((each) => ({
        label: words.shell.theme[each],
        checked: each === theme,
        onSelect: () => chooseTheme(each),
      }))}
    >
      <Icon name={theme === "dark" ? "moon" : "sun"} />
    </Menu>
  );
}

function UserMenu({ onKeyboard }: { onKeyboard: () => void }) {
  const me = useMe();
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const leave = useMutation({
    mutationFn: () => logOut(me?.login === "oidc"),
    onSuccess: (elsewhere) => (elsewhere ? location.assign(elsewhere) : client.resetQueries()),
  });
  return (
    <Menu
      label={words.shell.user.label(me?.display ?? "")}
      items={[
        {
          label: words.shell.user.permissions,
          icon: "lock",
          onSelect: () => navigate("/system?tab=permissions"),
        },
        { label: words.shell.user.keyboard, icon: "keyboard", onSelect: onKeyboard },
        "line",
        { label: words.shell.user.logOut, icon: "logout", onSelect: () => leave.mutate() },
      ]}
    >
      <Icon name="user" />
      <span className={styles.user}>{me?.display}</span>
    </Menu>
  );
}
