import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";
import { JsonTree } from "./json-tree";

it("shows values by their sort and marks what the API has masked", () => {
  render(<JsonTree label="Arguments" value={{ user: "ada", password: "•••", tries: 3, empty: {}, none: null }} />);
  expect(screen.getByText('"ada"')).toBeTruthy();
  expect(screen.getByText("hidden")).toBeTruthy();
  expect(screen.queryByText('"•••"')).toBeNull();
  expect(screen.getByText("null")).toBeTruthy();
  expect(screen.getByText("{}")).toBeTruthy();
});

it("shows a long list in steps", () => {
  render(<JsonTree label="Result" value={Array.from({ length: 250 }, (_, index) => `v${index}`)} />);
  expect(screen.getByText('"v99"')).toBeTruthy();
  expect(screen.queryByText('"v100"')).toBeNull();
  expect(screen.getByRole("button", { name: "More (150)" })).toBeTruthy();
});
