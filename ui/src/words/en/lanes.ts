export const lanes = { title: "Lanes" };
