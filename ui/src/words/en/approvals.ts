export const approvals = { title: "Approvals" };
