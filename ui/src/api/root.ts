/** The address of the dashboard, with the prefix under which it is mounted; ends with a slash. */
export const root = new URL(document.baseURI);

/** The prefix without its last slash: "" at the root of a host. */
export const prefix = root.pathname.replace(/\/$/, "");
