// @ts-nocheck
// Generated from the schema beside it by scripts/validators.mjs; change that, not this.
"use strict";
export const validate = validate10;
export default validate10;
const schema11 = {"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"node_to_queries":{"type":["object","null"],"additionalProperties":{"type":"array","items":{"type":"string"}}}}};

function validate10(data, {instancePath="", parentData, parentDataProperty, rootData=data}={}){
let vErrors = null;
let errors = 0;
if(errors === 0){
if(data && typeof data == "object" && !Array.isArray(data)){
if(data.node_to_queries !== undefined){
let data0 = data.node_to_queries;
const _errs1 = errors;
if((!(data0 && typeof data0 == "object" && !Array.isArray(data0))) && (data0 !== null)){
validate10.errors = [{instancePath:instancePath+"/node_to_queries",schemaPath:"#/properties/node_to_queries/type",keyword:"type",params:{type: schema11.properties.node_to_queries.type},message:"must be object,null"}];
return false;
}
if(errors === _errs1){
if(data0 && typeof data0 == "object" && !Array.isArray(data0)){
for(const key0 in data0){
let data1 = data0[key0];
const _errs4 = errors;
if(errors === _errs4){
if(Array.isArray(data1)){
var valid2 = true;
const len0 = data1.length;
for(let i0=0; i0<len0; i0++){
const _errs6 = errors;
if(typeof data1[i0] !== "string"){
validate10.errors = [{instancePath:instancePath+"/node_to_queries/" + key0.replace(/~/g, "~0").replace(/\//g, "~1")+"/" + i0,schemaPath:"#/properties/node_to_queries/additionalProperties/items/type",keyword:"type",params:{type: "string"},message:"must be string"}];
return false;
}
var valid2 = _errs6 === errors;
if(!valid2){
break;
}
}
}
else {
validate10.errors = [{instancePath:instancePath+"/node_to_queries/" + key0.replace(/~/g, "~0").replace(/\//g, "~1"),schemaPath:"#/properties/node_to_queries/additionalProperties/type",keyword:"type",params:{type: "array"},message:"must be array"}];
return false;
}
}
var valid1 = _errs4 === errors;
if(!valid1){
break;
}
}
}
}
}
}
else {
validate10.errors = [{instancePath,schemaPath:"#/type",keyword:"type",params:{type: "object"},message:"must be object"}];
return false;
}
}
validate10.errors = vErrors;
return errors === 0;
}
