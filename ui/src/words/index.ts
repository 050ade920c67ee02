/** Every text that a person reads. A translation is another object of this shape. */
export { en as words } from "./en";
export type Words = typeof import("./en").en;
