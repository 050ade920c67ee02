export const workflows = { title: "Workflows", compensating: "compensating" };
