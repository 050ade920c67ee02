import { Link } from "wouter";
import { Notice } from "../parts/page-states";
import { words } from "../words";

export function NotFound() {
  return (
    <Notice
      icon="search"
      heading="h1"
      title={words.shell.notFound.title}
      actions={<Link href="/">{words.shell.notFound.home}</Link>}
    >
      {words.shell.notFound.text}
    </Notice>
  );
}
