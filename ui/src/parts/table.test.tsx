import { fireEvent, render, screen } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";
import { type Column, Table } from "./table";

const COLUMNS: Column<string>[] = [{ key: "name", title: "Name", cell: (name) => name }];
const press = (key: string) => fireEvent.keyDown(document.activeElement ?? document.body, { key });
const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));

describe("a table", () => {
  it("is walked with j and k, and opened with Enter", async () => {
    const open = vi.fn();
    render(<Table label="Names" rows={["a", "b", "c"]} columns={COLUMNS} rowKey={(name) => name} onOpen={open} />);
    press("j");
    await frame();
    press("j");
    await frame();
    expect(document.activeElement?.textContent).toBe("b");
    press("k");
    await frame();
    press("Enter");
    expect(open).toHaveBeenCalledWith("a");
  });

  it("selects the row under the cursor with x", async () => {
    const select = vi.fn();
    render(
      <Table
        label="Names"
        rows={["a", "b"]}
        columns={COLUMNS}
        rowKey={(name) => name}
        selected={new Set(["b"])}
        onSelect={select}
      />,
    );
    press("j");
    await frame();
    press("x");
    expect(select).toHaveBeenCalledWith("a", false);
    expect(screen.getAllByRole("row")[2]?.getAttribute("aria-selected")).toBe("true");
  });

  it("opens a row that is pressed, but leaves links and buttons inside alone", () => {
    const open = vi.fn();
    const columns: Column<string>[] = [
      ...COLUMNS,
      { key: "order", title: "Orders", heading: null, cell: () => <button type="button">Stop</button> },
    ];
    render(<Table label="Names" rows={["a"]} columns={columns} rowKey={(name) => name} onOpen={open} />);
    fireEvent.click(screen.getByText("Stop"));
    expect(open).not.toHaveBeenCalled();
    fireEvent.click(screen.getByText("a"));
    expect(open).toHaveBeenCalledWith("a");
  });

  it("leaves keys to a field in which a person types", () => {
    render(
      <>
        <input aria-label="Search" />
        <Table label="Names" rows={["a"]} columns={COLUMNS} rowKey={(name) => name} />
      </>,
    );
    screen.getByLabelText("Search").focus();
    press("j");
    expect(document.activeElement).toBe(screen.getByLabelText("Search"));
  });
});
