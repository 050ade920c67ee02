export const job = { title: "Job" };
