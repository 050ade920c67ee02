export const incident = { title: "Incident" };
